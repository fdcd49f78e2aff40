/** Runs in each worker of the stage. */
export default class Model {
  /** `init` is the JSON of the stage's field Init. */
  constructor(init, ctx) {
    this.init = init;
    this.log = ctx.log;
  }

  /** Loads the model. The worker takes requests when this has finished. */
  async setup() {}

  /** Gets the inputs of one batch and returns as many results. */
  predict(inputs) {
    return inputs.map((input) => input);
  }
}
