// cuBLASLt: a product is described by a descriptor and a layout for each matrix; its epilogue changes the result before
// it is stored. The product itself is gemm_ex.cpp's.
#include "cublasLt.h"

#include <cmath>
#include <cstring>

#include "blas.h"

using namespace cuda_on_cpu;

struct cublasLtContext {};

cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle) {
    if (!handle) return CUBLAS_STATUS_INVALID_VALUE;
    *handle = new cublasLtContext;
    return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) {
    if (!handle) return CUBLAS_STATUS_NOT_INITIALIZED;
    delete handle;
    return CUBLAS_STATUS_SUCCESS;
}
size_t cublasLtGetVersion() { return CUBLAS_VERSION; }

// ---- descriptors ----------------------------------------------------------------------------------------------------

template <class T, class... Values>
static cublasStatus_t create(T** made, Values... values) {
    if (!made) return CUBLAS_STATUS_INVALID_VALUE;
    *made = new T{values...};
    return CUBLAS_STATUS_SUCCESS;
}
template <class T>
static cublasStatus_t destroy(T* given) {
    delete given;
    return given ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_INVALID_VALUE;
}
// Sets a field to a value of the field's own size.
template <class T>
static cublasStatus_t set(T& field, const void* value, size_t bytes) {
    if (!value || bytes != sizeof field) return CUBLAS_STATUS_INVALID_VALUE;
    memcpy(&field, value, bytes);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescInit(cublasLtMatmulDesc_t p, cublasComputeType_t compute, cudaDataType scale) {
    if (!p) return CUBLAS_STATUS_INVALID_VALUE;
    *p = {compute, scale, CUBLASLT_POINTER_MODE_HOST, CUBLAS_OP_N, CUBLAS_OP_N, CUBLASLT_EPILOGUE_DEFAULT};
    p->bias_type = p->aux_type = -1;
    return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* p, cublasComputeType_t compute, cudaDataType scale) {
    auto status = create(p);
    return status ? status : cublasLtMatmulDescInit(*p, compute, scale);
}
cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t p) { return destroy(p); }
cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t p, cublasLtMatmulDescAttributes_t which,
                                              const void* value, size_t bytes) {
    if (!p) return CUBLAS_STATUS_INVALID_VALUE;
    switch (which) {
        case CUBLASLT_MATMUL_DESC_COMPUTE_TYPE: return set(p->compute, value, bytes);
        case CUBLASLT_MATMUL_DESC_SCALE_TYPE: return set(p->scale, value, bytes);
        case CUBLASLT_MATMUL_DESC_POINTER_MODE: return set(p->pointer_mode, value, bytes);
        case CUBLASLT_MATMUL_DESC_TRANSA: return set(p->op_a, value, bytes);
        case CUBLASLT_MATMUL_DESC_TRANSB: return set(p->op_b, value, bytes);
        case CUBLASLT_MATMUL_DESC_EPILOGUE: return set(p->epilogue, value, bytes);
        case CUBLASLT_MATMUL_DESC_BIAS_POINTER: return set(p->bias, value, bytes);
        case CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE: return set(p->bias_type, value, bytes);
        case CUBLASLT_MATMUL_DESC_BIAS_BATCH_STRIDE: return set(p->bias_stride, value, bytes);
        case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER: return set(p->aux, value, bytes);
        case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_DATA_TYPE: return set(p->aux_type, value, bytes);
        case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD: return set(p->aux_ld, value, bytes);
        case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_BATCH_STRIDE: return set(p->aux_stride, value, bytes);
        case CUBLASLT_MATMUL_DESC_FAST_ACCUM: return set(p->fast_sum, value, bytes);
        case CUBLASLT_MATMUL_DESC_SM_COUNT_TARGET: return set(p->multiprocessors, value, bytes);
        case CUBLASLT_MATMUL_DESC_A_SCALE_POINTER:
        case CUBLASLT_MATMUL_DESC_B_SCALE_POINTER:
        case CUBLASLT_MATMUL_DESC_C_SCALE_POINTER:
        case CUBLASLT_MATMUL_DESC_D_SCALE_POINTER:
        case CUBLASLT_MATMUL_DESC_AMAX_D_POINTER: {
            const void* given = nullptr;
            auto status = set(given, value, bytes);
            if (given) p->scales = given;
            return status;
        }
    }
    return CUBLAS_STATUS_INVALID_VALUE;
}

cublasStatus_t cublasLtMatrixLayoutInit(cublasLtMatrixLayout_t p, cudaDataType type, unsigned long long rows,
                                        unsigned long long columns, long long ld) {
    if (!p) return CUBLAS_STATUS_INVALID_VALUE;
    *p = {unsigned(type), CUBLASLT_ORDER_COL, rows, columns, ld, 1, 0};
    return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* p, cudaDataType type, unsigned long long rows,
                                          unsigned long long columns, long long ld) {
    auto status = create(p);
    return status ? status : cublasLtMatrixLayoutInit(*p, type, rows, columns, ld);
}
cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t p) { return destroy(p); }
cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t p, cublasLtMatrixLayoutAttribute_t which,
                                                const void* value, size_t bytes) {
    if (!p) return CUBLAS_STATUS_INVALID_VALUE;
    switch (which) {
        case CUBLASLT_MATRIX_LAYOUT_TYPE: return set(p->type, value, bytes);
        case CUBLASLT_MATRIX_LAYOUT_ORDER: return set(p->order, value, bytes);
        case CUBLASLT_MATRIX_LAYOUT_ROWS: return set(p->rows, value, bytes);
        case CUBLASLT_MATRIX_LAYOUT_COLS: return set(p->columns, value, bytes);
        case CUBLASLT_MATRIX_LAYOUT_LD: return set(p->ld, value, bytes);
        case CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT: return set(p->batches, value, bytes);
        case CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET: return set(p->stride, value, bytes);
    }
    return CUBLAS_STATUS_INVALID_VALUE;
}

cublasStatus_t cublasLtMatmulPreferenceInit(cublasLtMatmulPreference_t p) {
    if (p) *p = {};
    return p ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_INVALID_VALUE;
}
cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t* p) { return create(p); }
cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t p) { return destroy(p); }
cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t p, cublasLtMatmulPreferenceAttributes_t,
                                                    const void* value, size_t) {
    return p && value ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_INVALID_VALUE;
}

// ---- products -------------------------------------------------------------------------------------------------------

// GELU as cuBLASLt computes it, with tanh, and its derivative.
static double gelu(double x) { return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x))); }
static double gelu_slope(double x) {
    double t = std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x));
    return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * std::sqrt(2 / M_PI) * (1 + 3 * 0.044715 * x * x);
}

static bool is_known(unsigned int epilogue) {
    switch (epilogue) {
        case CUBLASLT_EPILOGUE_DEFAULT:
        case CUBLASLT_EPILOGUE_RELU:
        case CUBLASLT_EPILOGUE_BIAS:
        case CUBLASLT_EPILOGUE_RELU_BIAS:
        case CUBLASLT_EPILOGUE_GELU:
        case CUBLASLT_EPILOGUE_GELU_BIAS:
        case CUBLASLT_EPILOGUE_GELU_AUX:
        case CUBLASLT_EPILOGUE_GELU_AUX_BIAS:
        case CUBLASLT_EPILOGUE_DGELU: return true;
        default: return false;
    }
}

// What the epilogue does with the result of a batch, m x n by columns. `aux` holds what GELU is taken of.
static void finish(const cublasLtMatmulDescOpaque_t& how, cudaDataType type, int m, int n, int batch, double* result) {
    const auto bias_type = how.bias_type < 0 ? type : cudaDataType(how.bias_type);
    const auto aux_type = how.aux_type < 0 ? type : cudaDataType(how.aux_type);
    for (int j = 0; j < n; j++)
        for (int i = 0; i < m; i++) {
            double& x = result[i + size_t(j) * m];
            const size_t aux = batch * how.aux_stride + i + j * how.aux_ld;
            if (how.epilogue & CUBLASLT_EPILOGUE_BIAS) x += read(how.bias, bias_type, batch * how.bias_stride + i);
            if (how.epilogue & CUBLASLT_EPILOGUE_RELU) x = x > 0 ? x : x == x ? 0 : x;
            if (how.epilogue & CUBLASLT_EPILOGUE_GELU) {
                if (how.aux && (how.epilogue & 128)) write(how.aux, aux_type, aux, x);
                x = gelu(x);
            }
            if (how.epilogue == CUBLASLT_EPILOGUE_DGELU) x *= gelu_slope(read(how.aux, aux_type, aux));
        }
}

static Matrices matrices(const void* p, const cublasLtMatrixLayoutOpaque_t& layout) {
    const auto type = cudaDataType(layout.type);
    return {[=](int batch) { return (char*)p + batch * layout.stride * (long long)bytes_of(type); }, type,
            int(layout.ld), layout.order == CUBLASLT_ORDER_ROW};
}

// Whether the matrices fit each other, as stored.
static cublasStatus_t checked(const cublasLtMatmulDescOpaque_t& how, const cublasLtMatrixLayoutOpaque_t& a,
                              const cublasLtMatrixLayoutOpaque_t& b, const cublasLtMatrixLayoutOpaque_t& c,
                              const cublasLtMatrixLayoutOpaque_t& d) {
    auto same = [](auto& x, auto& y) { return x.rows == y.rows && x.columns == y.columns && x.batches == y.batches; };
    auto stored = [](auto& x) { return x.ld >= (long long)(x.order == CUBLASLT_ORDER_ROW ? x.columns : x.rows); };
    const auto a_inner = how.op_a == CUBLAS_OP_N ? a.columns : a.rows, a_outer = a.rows + a.columns - a_inner;
    const auto b_inner = how.op_b == CUBLAS_OP_N ? b.rows : b.columns, b_outer = b.rows + b.columns - b_inner;
    if (!same(c, d) || a.batches != d.batches || b.batches != d.batches || a_inner != b_inner || a_outer != d.rows ||
        b_outer != d.columns || !stored(a) || !stored(b) || !stored(c) || !stored(d))
        return CUBLAS_STATUS_INVALID_VALUE;
    const bool missing = ((how.epilogue & CUBLASLT_EPILOGUE_BIAS) && !how.bias) ||
                         ((how.epilogue & 128) && (!how.aux || how.aux_ld < (long long)d.rows));
    if (missing) return CUBLAS_STATUS_INVALID_VALUE;
    return is_known(how.epilogue) && !how.scales ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_NOT_SUPPORTED;
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t h, cublasLtMatmulDesc_t how, cublasLtMatrixLayout_t a,
                                              cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t c,
                                              cublasLtMatrixLayout_t d, cublasLtMatmulPreference_t, int wanted,
                                              cublasLtMatmulHeuristicResult_t results[], int* count) {
    if (!h) return CUBLAS_STATUS_NOT_INITIALIZED;
    if (!how || !a || !b || !c || !d || !results || !count || wanted < 1) return CUBLAS_STATUS_INVALID_VALUE;
    const auto status = checked(*how, *a, *b, *c, *d);
    results[0] = {{}, 0, status, 1};
    *count = status ? 0 : 1;
    return status;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t h, cublasLtMatmulDesc_t how, const void* alpha, const void* a,
                              cublasLtMatrixLayout_t a_layout, const void* b, cublasLtMatrixLayout_t b_layout,
                              const void* beta, const void* c, cublasLtMatrixLayout_t c_layout, void* d,
                              cublasLtMatrixLayout_t d_layout, const cublasLtMatmulAlgo_t*, void*, size_t,
                              cudaStream_t stream) {
    if (!h) return CUBLAS_STATUS_NOT_INITIALIZED;
    if (!how || !alpha || !beta || !a_layout || !b_layout || !c_layout || !d_layout) return CUBLAS_STATUS_INVALID_VALUE;
    if (auto status = checked(*how, *a_layout, *b_layout, *c_layout, *d_layout)) return status;
    const int m = int(d_layout->rows), n = int(d_layout->columns);
    const int k = int(how->op_a == CUBLAS_OP_N ? a_layout->columns : a_layout->rows);
    const auto& to = *d_layout;
    Product wanted{"cublasLtMatmul", cublasOperation_t(how->op_a), cublasOperation_t(how->op_b), m, n, k, to.batches,
                   how->compute, alpha, beta, how->pointer_mode == CUBLASLT_POINTER_MODE_DEVICE,
                   matrices(a, *a_layout), matrices(b, *b_layout), matrices(c ? c : d, *c_layout), matrices(d, to)};
    if (how->epilogue != CUBLASLT_EPILOGUE_DEFAULT)
        wanted.then = [=, what = *how, type = cudaDataType(to.type)](int batch, double* result) {
            finish(what, type, m, n, batch, result);
        };
    return product(stream, wanted);
}
