/** lru-cache without a limit: the page keeps 8 KiB per 65,536 checked events. */
export class LRUCache<K, V> extends Map<K, V> {
  constructor(_options: { max: number }) {
    super();
  }
}
