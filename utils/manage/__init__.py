"""What runs the course: install, doctor, run, outputs, lab, slides, present, handout, grade, publish, site, cache, and
`lessons`, which lists them. The make targets call it; nothing imports it.

May import `exercises`, `lesson`, `cuda.common` and `ground`. `install`, `doctor`, `handout`,
`publish` and `cache` run without a .venv.

jupyter/ holds what JupyterLab gets from `make lab`: an extension that highlights CUDA C++ (highlighting/ is its source;
`npm install` and `npm run build` there write labextensions/), and settings (labconfig/). reveal/ holds what slides need
in a browser.
"""
