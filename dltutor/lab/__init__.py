"""Copy the notebooks to a folder of the learner's and open them in JupyterLab (`dltutor lab`)."""
