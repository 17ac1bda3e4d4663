/** Continues a generator whose first result was read before the response, so that an error can set the status. */
export async function* startingWith<T>(
  first: IteratorResult<T>,
  others: AsyncGenerator<T>,
): AsyncGenerator<T> {
  if (first.done) return;
  yield first.value;
  yield* others;
}
