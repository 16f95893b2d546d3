"""What a traced launch reports: the runtime records every access (C++), and Python makes sentences, tables, pictures.

May import `cpu`, `common` and `ground`; `cuda` imports it.
"""
