"""The colours of every picture."""

# The "light" scheme of Paul Tol's notes on colours: safe for the colour-blind, with black text legible on all.
COLOURS = ["#77AADD", "#EE8866", "#EEDD88", "#FFAABB", "#99DDFF", "#44BB99", "#BBCC33", "#AAAA00"]
PALE = "#DDDDDD"
# For lines and the edges of dots: each has a contrast of at least 3:1 against white.
LINES = ["#4477AA", "#CC3311", "#228833", "#AA3377", "#117777", "#885500", "#332288", "#666666"]
