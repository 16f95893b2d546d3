// How many groups of b hold a things: the quotient rounded up.
inline unsigned int cdiv(size_t a, size_t b) { return (unsigned int)((a + b - 1) / b); }
