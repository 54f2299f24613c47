import type { SessionView } from '../wire';

/** The sessions of one folder. */
export interface ProjectGroup {
  project: string;
  sessions: SessionView[];
}

/**
 * Sessions by project. The order is that of creation, the newest first: it
 * does not move under the pointer while agents work.
 */
export function byProject(sessions: readonly SessionView[]): ProjectGroup[] {
  const groups = new Map<string, ProjectGroup>();
  for (const session of sessions.toSorted((a, b) => b.created_at - a.created_at)) {
    const group = groups.get(session.project);
    if (group) group.sessions.push(session);
    else groups.set(session.project, { project: session.project, sessions: [session] });
  }
  return [...groups.values()];
}

/** The sessions whose title or folder holds all the wanted words, whatever their case. */
export function matchingSessions(sessions: readonly SessionView[], wanted: string): readonly SessionView[] {
  const words = wanted.toLowerCase().split(/\s+/).filter((word) => word !== '');
  if (words.length === 0) return sessions;
  return sessions.filter(({ title, project }) => {
    const text = `${title} ${project}`.toLowerCase();
    return words.every((word) => text.includes(word));
  });
}

/** The folders that were worked in, the last one first. */
export function recentProjects(sessions: readonly SessionView[], most: number): string[] {
  const sorted = sessions.toSorted((a, b) => b.last_activity - a.last_activity);
  return [...new Set(sorted.map(({ project }) => project))].slice(0, most);
}

/** Servers that would end with this session: it alone uses them, and they do not stay by themselves. */
export function endsWith(session: SessionView, servers: readonly { name: string; lifetime: string; used_by: readonly string[] }[]): string[] {
  return servers
    .filter(({ lifetime, used_by }) => lifetime === 'session' && used_by.length === 1 && used_by[0] === session.id)
    .map(({ name }) => name);
}
