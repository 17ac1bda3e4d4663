import {
  entryHash,
  erasedLeaf,
  parseEntryBundle,
  type TileMismatch,
  tileHashes,
  tileRoot,
} from '@event-sourced/transparency-log';
import { cellText, facts, jsonDetails, MAX_TEXT_CHARACTERS, make, streamName } from './dom.ts';
import type { Context } from './screen.ts';
import { beginning, indentedJson, parseTime, visible } from './text.ts';

/** The fields of the event that an entry has, and the entry itself. */
export function eventFacts(
  entry: Buffer,
  { entityType, zone }: Pick<Context, 'entityType' | 'zone'>,
): Node[] {
  const erased = erasedLeaf(entry);
  if (erased) return [facts([['erased', `only its hash remains: ${erased}`]])];
  const text = entry.toString();
  try {
    const { stream, type, data, metadata } = JSON.parse(text);
    const entity: Record<string, string> | undefined = entityType.streams.parse(stream);
    const time = zone.format(parseTime(metadata?.occurredAt));
    const fields: Record<string, unknown> = {
      user: entity?.user,
      [`${entityType.streams.noun} ID`]: entity?.id,
      time: time && `${time} ${zone.name}`,
      type,
    };
    const others = Object.entries(data ?? {}).filter(([name, value]) => value !== entity?.[name]);
    const texts = [...Object.entries(fields), ...others].map(([name, value]) => {
      const shown = typeof value === 'string' ? value : JSON.stringify(value);
      return [name, shown && cellText(shown)] as const;
    });
    return [facts([['stream', streamName(stream)], ...texts]), jsonDetails(indentedJson(text))];
  } catch {
    return [make('pre', '', visible(beginning(text, MAX_TEXT_CHARACTERS)))]; // it is not an event of this service
  }
}

/** Describes a mismatch of tiles or entries: both hashes, the first differing event, and the paths. */
export function mismatchFacts({ received }: TileMismatch, context: Parameters<typeof eventFacts>[1]): Node[] {
  const paths = make('p', 'hash', [...received.keys()].join(', '));
  const [[path = '', bytes] = [], [, tile] = []] = [...received];
  if (!bytes) return [paths];
  if (received.size === 1) return [facts([['Hash of the tile', tileRoot(bytes)]]), paths];
  if (!path.startsWith('tile/entries/')) return [paths];
  const inTree = tileHashes(tile ?? Buffer.alloc(0));
  for (const [i, entry] of parseEntries(bytes).entries()) {
    const hash = entryHash(entry);
    if (hash === inTree[i]) continue;
    const hashes = facts(Object.entries({ 'Hash of the entry': hash, 'Hash in the tree': inTree[i] }));
    return [hashes, ...eventFacts(entry, context), paths];
  }
  return [paths];
}

/** The entries of a bundle; none if it is malformed. */
function parseEntries(bundle: Buffer): Buffer[] {
  try {
    return parseEntryBundle(bundle);
  } catch {
    return [];
  }
}
