declare module 'audit:entityType' {
  export const entityType: import('../entityType.ts').EntityType;
}
