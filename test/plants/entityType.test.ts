import fc from 'fast-check';
import { expect, test } from 'vitest';
import { Entities } from '../../packages/audit/page/entities.ts';
import { entityType } from '../../src/plants/entityType.ts';
import { EVENTS, type PlantEvent } from '../../src/plants/events.ts';
import { evolve, type Plant } from '../../src/plants/plant.ts';
import { canHaveRevision, parsePlantStream, plantStream } from '../../src/plants/stream.ts';
import { isUser } from '../../src/plants/user.ts';

// The audit page knows plants as data only: it must do with them what the service does.

const { streams, ...texts } = entityType;
const entities = new Entities({ ...texts, noun: streams.noun });
const user = fc.string({ unit: 'binary', minLength: 1, maxLength: 90 }).filter(isUser);
const id = fc.bigInt({ min: -(2n ** 63n), max: 2n ** 63n - 1n });

test('the pattern of streams finds the user and the ID that the service finds', () => {
  fc.assert(
    fc.property(user, id, (user, id) => {
      const stream = plantStream(user, id);
      expect(entities.parse(stream)).toEqual({ user, id: `${id}` });
      expect(parsePlantStream(stream)).toEqual({ user, id: `${id}` });
    }),
  );
});

test.each([
  'plant-',
  'plant-/1',
  'plant-alice',
  'plant-alice/',
  'plant-alice/01',
  'plant-a\0/1',
  'plant-\ud800/1',
  'other-a/1',
])('neither finds a user in %j', (stream) => {
  expect([entities.parse(stream), parsePlantStream(stream)]).toEqual([undefined, undefined]);
});

test('the effects of events make of a stream what the fold of plants makes of it', () => {
  const plant = fc.record({ name: fc.string(), tag: fc.string() }, { requiredKeys: ['name'] });
  const events = fc.array(fc.tuple(fc.constantFrom(...Object.keys(EVENTS), 'Unknown'), plant), {
    maxLength: 5,
  });
  fc.assert(
    fc.property(events, (events) => {
      let shown: ReturnType<typeof entities.evolve>;
      let folded: Plant | undefined;
      for (const [i, [type, given]] of events.entries()) {
        const event = { type, revision: BigInt(i), data: { id: '1', user: 'alice', ...given } };
        shown = entities.evolve(shown, event);
        if (canHaveRevision(type, event.revision)) folded = evolve(folded, event as PlantEvent);
      }
      const { id: _, user: __, ...fields } = folded ?? ({} as Partial<Plant>);
      expect({ ...shown }).toEqual(fields);
    }),
  );
});
