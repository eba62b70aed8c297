"""Copy the notebooks into the learner's folder and open them in JupyterLab (`dltutor lab`)."""
