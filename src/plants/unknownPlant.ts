/** The user has no plant with this ID. */
export class UnknownPlant extends Error {
  override readonly name = 'UnknownPlant';
}
