// Stands in for CUDA's header of this name: the types of the driver's functions that the engine has.
#pragma once
#include "cuda.h"

using PFN_cuGetErrorString_v6000 = decltype(&cuGetErrorString);
using PFN_cuGetErrorString = PFN_cuGetErrorString_v6000;
using PFN_cuGetErrorName_v6000 = decltype(&cuGetErrorName);
using PFN_cuGetErrorName = PFN_cuGetErrorName_v6000;
using PFN_cuTensorMapEncodeTiled_v12000 = decltype(&cuTensorMapEncodeTiled);
using PFN_cuTensorMapEncodeTiled = PFN_cuTensorMapEncodeTiled_v12000;
using PFN_cuTensorMapReplaceAddress_v12000 = decltype(&cuTensorMapReplaceAddress);
using PFN_cuTensorMapReplaceAddress = PFN_cuTensorMapReplaceAddress_v12000;
