"""The colours of every picture."""

# The "light" scheme of Paul Tol's notes on colours: safe for the colour-blind, and black text is legible on all.
COLOURS = ["#77AADD", "#EE8866", "#EEDD88", "#FFAABB", "#99DDFF", "#44BB99", "#BBCC33", "#AAAA00"]
PALE = "#DDDDDD"
