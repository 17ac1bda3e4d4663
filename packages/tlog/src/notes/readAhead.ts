const FETCHED_AHEAD = 4;

/** Fetches each index from `first` to `last`, some of them ahead, and yields the results in order. */
export async function* readAhead<T>(
  first: number,
  last: number,
  fetch: (index: number) => Promise<T>,
): AsyncGenerator<T> {
  const fetching: Promise<T>[] = [];
  for (let next = first; next <= last || fetching.length > 0; ) {
    for (; next <= last && fetching.length < FETCHED_AHEAD; next++) {
      const result = fetch(next);
      result.catch(() => {}); // its error is thrown in order
      fetching.push(result);
    }
    yield await (fetching.shift() as Promise<T>);
  }
}
