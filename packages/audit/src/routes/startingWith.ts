/** What a generator yields, of which the first result was read before the response: until then, an error has its status. */
export async function* startingWith<T>(
  first: IteratorResult<T>,
  others: AsyncGenerator<T>,
): AsyncGenerator<T> {
  if (first.done) return;
  yield first.value;
  yield* others;
}
