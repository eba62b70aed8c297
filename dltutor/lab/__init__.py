"""`dltutor lab`: the notebooks in a folder of the learner's, open in JupyterLab."""
