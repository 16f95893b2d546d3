"""What a traced launch reports: the C++ here records every access, Python makes sentences, tables and pictures of it.

`run` traces one kernel, `extension` all launches of an extension. `records` is what was recorded, with the lines that
`lines` finds. `trace.Trace` holds it for the learner: `problems` in `sentences`, requests in `tables`, and `pictures`.
May import `cpu`, `common` and `ground`; `cuda` imports it.
"""
