import type { client, Plant } from './service.ts';

export type PlantOfUser = readonly [user: string, id: bigint | number, plant: Plant];

/** Plants of alice and of bob, in log order, with unusual text, and the lowest and the highest ID. */
export const PLANTS: readonly PlantOfUser[] = [
  ['alice', 1n, { name: 'Fern', tag: 'indoor' }],
  ['bob', 1n, { name: '', tag: '' }],
  ['alice', -(2n ** 63n), { name: 'unit \u001f, nul \0, quote ", line \u2028 \r\n' }],
  ['bob', 2n ** 63n - 1n, { name: 'emoji 🌱👩‍🌾', tag: '\ufeff' }],
  ['alice', 2n, { name: 'Moss' }],
];

type Service = { as: ReturnType<typeof client> };

/** Creates them in this order. */
export async function createPlants({ as }: Service, plants = PLANTS): Promise<void> {
  for (const [user, id, plant] of plants) {
    const { status } = await as(user).create(id, plant);
    if (status !== 200) throw new Error(`${plant.name} returned ${status}`);
  }
}

/** The lists of alice and of bob. */
export const listsOf = ({ as }: Service): Promise<Plant[][]> =>
  Promise.all(['alice', 'bob'].map((user) => as(user).list()));
