class Model:
    """Runs in each worker of the stage."""

    def __init__(self, init, ctx):
        """`init` is the JSON of the stage's field Init."""
        self.init = init
        self.log = ctx.log

    def setup(self):
        """Loads the model. The worker takes requests when this has finished."""

    def predict(self, value):
        """Gets the input of one message and returns its result."""
        return value
