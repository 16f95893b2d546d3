"""What a traced launch reports: the C++ here records every access; Python turns it into sentences, tables and pictures.

`run` traces one kernel, `extension` all launches of an extension. `records` is what was recorded, with the lines that
`lines` finds. `trace.Trace` shows it to the learner: `problems` as `sentences`, requests as `tables`, and `pictures`.
For a player, `recorder` records the launch when it is repeated, `variables` knows where the variables are, and `steps`
builds a `Recording`, in which `marked` finds the problems.
May import `cpu`, `player`, `common` and `ground`; `cuda` imports it.
"""
