/** One object of state. A change replaces parts of it, and calls `onChange`. */
export class Store<State extends object> {
  #state: State;
  onChange: (state: State) => void = () => {};

  constructor(state: State) {
    this.#state = state;
  }

  get state(): State {
    return this.#state;
  }

  /** Replaces these parts. */
  set(parts: Partial<State>): void {
    this.#state = { ...this.#state, ...parts };
    this.onChange(this.#state);
  }
}
