/** Runs in each worker of the stage. */
export default class Model {
  /** `init` is the JSON of the stage's field Init. */
  constructor(init, ctx) {
    this.init = init;
    this.log = ctx.log;
  }

  /** Loads the model. The worker takes requests when this has finished. */
  async setup() {}

  /** Gets the input of one message and returns its result. */
  predict(input) {
    return input;
  }
}
