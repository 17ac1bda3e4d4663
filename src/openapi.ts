import { CloudEvent } from '@event-sourced/event-log/replay';
import type { ApiDescription } from '@event-sourced/http';
import { Erased, Erasure } from './erasureRoutes.ts';
import { API_ERRORS, COMMON_ERRORS } from './errors.ts';
import { ListedPlant, NewPlant, Plant } from './plantRoutes.ts';
import { VERSION } from './version.ts';

/** The parts of the OpenAPI document that no route defines. */
export const API: ApiDescription = {
  info: {
    title: 'Plant store API',
    version: VERSION,
    description:
      'Create plants, and list your own. The `audit` operations replay and verify the log of all users; [the audit page](audit) uses them. Every request can be repeated safely.',
    contact: { name: 'The maintainers of the plant store' },
    license: { name: 'MIT', identifier: 'MIT' },
  },
  tags: [
    { name: 'plants', description: 'The plants of the token’s user.' },
    { name: 'erasures', description: 'Erase users, for tokens with the scope erase.' },
    { name: 'audit', description: 'The log of all users, for tokens with the scope audit.' },
  ],
  schemas: [Plant, NewPlant, ListedPlant, Erasure, Erased, CloudEvent],
  errors: API_ERRORS,
  commonErrors: COMMON_ERRORS,
  token:
    'A JWT of your identity provider, or one signed with the service’s own key. To create one on the service’s machine: `bin/plant-store token alice`; for the `audit` operations: `bin/plant-store token carol --scope audit`; to erase users: `bin/plant-store token dana --scope erase`.',
};
