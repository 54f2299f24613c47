import type { AgentConversation } from '../wire';

/** From so many conversations on one wants to search in them. */
export const MANY = 8;

/** Those with all of the words in their title, or in their id where they have none. */
export function matchingConversations(conversations: readonly AgentConversation[], wanted: string): readonly AgentConversation[] {
  const words = wanted.toLowerCase().split(/\s+/).filter((word) => word !== '');
  if (words.length === 0) return conversations;
  return conversations.filter(({ id, title }) => {
    const text = (title ?? id).toLowerCase();
    return words.every((word) => text.includes(word));
  });
}

/** When something last happened in it (milliseconds since the epoch); null when the agent says nothing that can be read. */
export function timeOf({ updated_at }: AgentConversation): number | null {
  const at = updated_at === null ? NaN : Date.parse(updated_at);
  return Number.isNaN(at) ? null : at;
}
