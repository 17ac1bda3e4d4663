import { leafHash, parseEntryBundle, type TileMismatch, tileHashes, tileRoot } from '@event-sourced/tlog';
import type { EventInText } from '@event-sourced/transparency-log/digest';
import { cellText, facts, jsonDetails, MAX_TEXT_CHARACTERS, make, streamName } from './dom.ts';
import type { Contradiction } from './readLog.ts';
import type { Context } from './screen.ts';
import { beginning, indentedJson, parseTime, visible } from './text.ts';

/** The fields of the event in a receipt, and its text. */
export function eventFacts(
  { event, text }: { event: EventInText; text: string },
  { entityType, zone }: Pick<Context, 'entityType' | 'zone'>,
): Node[] {
  const { stream, type, data } = event;
  const entity: Record<string, string> | undefined = entityType.streams.parse(stream);
  const metadata = event.metadata as { occurredAt?: unknown } | null | undefined;
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
}

/** Describes a mismatch of tiles or entries: the hashes of the first differing entry, and the paths. */
export function mismatchFacts({ received }: TileMismatch): Node[] {
  const paths = make('p', 'hash', [...received.keys()].join(', '));
  const [[path = '', bytes] = [], [, tile] = []] = [...received];
  if (!bytes) return [paths];
  if (received.size === 1) return [facts([['Hash of the tile', tileRoot(bytes)]]), paths];
  if (!path.startsWith('tile/entries/')) return [paths];
  const inTree = tileHashes(tile ?? new Uint8Array());
  for (const [i, entry] of parseEntries(bytes).entries()) {
    const hash = leafHash(entry);
    if (hash === inTree[i]) continue;
    return [facts(Object.entries({ 'Hash of the entry': hash, 'Hash in the tree': inTree[i] })), paths];
  }
  return [paths];
}

/** Describes what contradicts the signed log, with the line of the event. */
export function contradictionFacts({ facts: shown, line }: Contradiction): Node[] {
  return [facts(shown), ...(line === undefined ? [] : [lineDetails(line)])];
}

function lineDetails(line: string): Node {
  try {
    return jsonDetails(indentedJson(line));
  } catch {
    return make('pre', '', visible(beginning(line, MAX_TEXT_CHARACTERS))); // it is not JSON
  }
}

/** The entries of a bundle; none if it is malformed. */
function parseEntries(bundle: Uint8Array): Uint8Array[] {
  try {
    return parseEntryBundle(bundle);
  } catch {
    return [];
  }
}
