// What inline PTX becomes (ptx/ beside translate.py): every instruction is a call of a function in cuda_on_cpu::ptx. Only
// sources with `asm` statements include this.
#pragma once

#include "ptx/arithmetic.h"
#include "ptx/asynchronous.h"
#include "ptx/clusters.h"
#include "ptx/conversions.h"
#include "ptx/logic.h"
#include "ptx/matrices.h"
#include "ptx/memory.h"
#include "ptx/mma.h"
#include "ptx/tensors.h"
#include "ptx/warps.h"
#include "ptx/wgmma.h"
#include "ptx/wmma.h"
