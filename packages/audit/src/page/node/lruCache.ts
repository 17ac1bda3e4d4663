/** lru-cache without a limit: a page keeps 8 KiB for 65,536 events that it checks. */
export class LRUCache<K, V> extends Map<K, V> {
  constructor(_options: { max: number }) {
    super();
  }
}
