import { join } from 'node:path';
import { describe, expect, onTestFinished, test } from 'vitest';
import { PlantsByUser } from '../../projections/plantsByUser.ts';
import { PAGE_BYTES } from '../../projections/savedPlants.ts';
import { type Position, START } from '../../src/eventStore/eventStore.ts';
import { tempDir } from '../support/tempDir.ts';
import { created } from './created.ts';

const LARGEST_PLANT = 60 * 1024;
const NONE = new Set<string>();

/** Small, large and again small plants of alice, and large ones of bob between them. */
const NAMES = Array.from({ length: 60 }, (_, i) => `${i} ${'ü'.repeat(i < 20 || i >= 50 ? 3 : 30_000)}`);
const EVENTS = NAMES.flatMap((name, i) => [
  created(2 * i + 1, 'alice', name),
  created(2 * i + 2, 'bob', `Oak ${name}`),
]);

/** A view of these events, of which the first ones are saved. */
async function view(saved: number): Promise<PlantsByUser> {
  const opened = await PlantsByUser.open(join(tempDir(), 'view.db'));
  onTestFinished(() => opened.close());
  await opened.reset('slog');
  opened.apply(EVENTS.slice(0, saved), NONE);
  await opened.save();
  opened.apply(EVENTS.slice(saved), NONE);
  return opened;
}

describe.each([
  ['in memory', 0],
  ['saved', EVENTS.length],
  ['partly saved', 71],
])('large plants %s', (_, saved) => {
  test.each([60, 500])('are returned in pages that end by bytes, with a limit of %i', async (limit) => {
    const filledView = await view(saved);
    const names: string[] = [];
    let pages = 0;
    for (let [after, hasMore]: [Position, boolean] = [START, true]; hasMore; pages++) {
      const page = filledView.plantsOf('alice', { after, upTo: filledView.applied.position, limit });
      const bytes = Buffer.byteLength(page.plants);
      expect(bytes).toBeLessThan(PAGE_BYTES + LARGEST_PLANT);
      if (page.hasMore) expect(bytes).toBeGreaterThanOrEqual(PAGE_BYTES);
      const plants = JSON.parse(`[${page.plants}]`) as { name: string }[];
      expect(page.count).toBe(plants.length);
      names.push(...plants.map(({ name }) => name));
      [after, hasMore] = [page.last, page.hasMore];
    }
    expect(names).toEqual(NAMES);
    expect(pages).toBeGreaterThan(5);
  });

  test.each([1, 2, 21, 22])('are returned in pages of %i that bytes do not end earlier', async (limit) => {
    const filledView = await view(saved);
    const query = { after: START, upTo: filledView.applied.position, limit };
    const position = BigInt(2 * limit - 1);
    const page = filledView.plantsOf('alice', query);
    expect(page).toMatchObject({ count: limit, last: position, hasMore: true });
    expect(filledView.nextPage('alice', query)).toBe(position);
  });
});

test('a plant larger than a page is a page', async () => {
  const filledView = await view(EVENTS.length);
  const name = 'x'.repeat(2 * PAGE_BYTES);
  filledView.apply([created(121, 'carol', name), created(122, 'carol', 'Fern')], NONE);
  for (const save of [async () => {}, () => filledView.save()]) {
    await save();
    const page = filledView.plantsOf('carol', { after: START, upTo: 122n, limit: 500 });
    expect(page).toMatchObject({ count: 1, last: 121n, hasMore: true });
    const rest = filledView.plantsOf('carol', { after: 121n, upTo: 122n, limit: 500 });
    expect(rest).toMatchObject({ count: 1, last: 122n, hasMore: false });
  }
});
