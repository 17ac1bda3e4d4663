/** How many results are fetched before they are needed. */
const AHEAD = 4;

/** What `fetch` resolves to for each number from `first` to `last`, in this order, some of them fetched ahead. */
export async function* readAhead<T>(
  first: number,
  last: number,
  fetch: (number: number) => Promise<T>,
): AsyncGenerator<T> {
  const fetching: Promise<T>[] = [];
  for (let next = first; next <= last || fetching.length > 0; ) {
    for (; next <= last && fetching.length < AHEAD; next++) {
      const result = fetch(next);
      result.catch(() => {}); // it is thrown when its turn comes
      fetching.push(result);
    }
    yield await (fetching.shift() as Promise<T>);
  }
}
