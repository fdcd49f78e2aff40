class Model:
    """Runs in each worker of the stage."""

    def __init__(self, init, ctx):
        """`init` is the JSON of the stage's field Init."""
        self.init = init
        self.log = ctx.log

    def setup(self):
        """Loads the model. The worker takes requests when this has finished."""

    def predict(self, values):
        """Gets the inputs of one batch and returns as many results."""
        return [value for value in values]
