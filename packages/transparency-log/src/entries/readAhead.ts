const FETCHED_AHEAD = 4;

/** What `fetch` resolves to for each index from `first` to `last`, in this order, some of them fetched ahead. */
export async function* readAhead<T>(
  first: number,
  last: number,
  fetch: (index: number) => Promise<T>,
): AsyncGenerator<T> {
  const fetching: Promise<T>[] = [];
  for (let next = first; next <= last || fetching.length > 0; ) {
    for (; next <= last && fetching.length < FETCHED_AHEAD; next++) {
      const result = fetch(next);
      result.catch(() => {}); // it is thrown when its turn comes
      fetching.push(result);
    }
    yield await (fetching.shift() as Promise<T>);
  }
}
