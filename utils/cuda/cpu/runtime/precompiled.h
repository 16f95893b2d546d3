// What most files of the runtime begin with: compiled once, before them (build.py), it takes a third off their time.
#pragma once

#include <algorithm>
#include <cstring>
#include <map>
#include <set>

#include "../trace/trace.h"
#include "runtime.h"
