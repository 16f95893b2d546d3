"""C++17's special functions, as std::riemann_zeta: what compilers need not read for sources that do not use them.

libstdc++'s <cmath> brings their templates along, and compilers instantiate what headers use of their own templates in
every build: g++ takes 50 ms for these, nvcc 160 ms.
"""

import re

__all__ = ["ALSO", "FILE_GUARD", "NAMES", "left_out"]

#: The macro that says that libstdc++'s file with them has been read.
FILE_GUARD = "_GLIBCXX_BITS_SPECFUN_H"
#: What else that file includes: sources rely on it.
ALSO = """#include <limits>
#include <type_traits>
#if __has_include(<bits/stl_algobase.h>)
#include <bits/stl_algobase.h>
#endif
"""
#: A pattern of their names.
NAMES = (
    "(?:assoc_laguerre|assoc_legendre|beta|comp_ellint_[123]|cyl_bessel_[ijk]|cyl_neumann|ellint_[123]|expint|hermite|"
    "laguerre|legendre|riemann_zeta|sph_bessel|sph_legendre|sph_neumann)[fl]?"
)
# <tr1/cmath> takes them from <cmath>.
_NAMED = re.compile(rf"\b{NAMES}\b|\btr1/|__STDCPP_MATH_SPEC_FUNCS__|__cpp_lib_math_special_functions")


def left_out(text) -> list[str]:
    """The compiler's flag that leaves them out, for a source that names none of them; `ALSO` comes first in it."""
    return [] if _NAMED.search(text) else [f"-D{FILE_GUARD}"]
