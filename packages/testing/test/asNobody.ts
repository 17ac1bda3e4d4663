/** Calls a function as a user other than root, for whom file modes apply. */
export function asNobody<T>(call: () => T): T {
  if (process.geteuid?.() !== 0) return call();
  process.seteuid?.(65534);
  try {
    return call();
  } finally {
    process.seteuid?.(0);
  }
}
