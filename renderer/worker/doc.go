// Package worker runs jobs on untrusted input in child processes.
//
// A Host starts processes of this program and hands calls to them: the name of a job, bounded input, a deadline, a CPU
// budget and a bound for the answer. The child runs the job that is registered under that name. While it runs, the job
// can ask the parent for named things (a chart archive by its digest, say); the parent decides what to answer.
//
// # Restrictions
//
// A child has an empty environment, the root as its working directory, no descriptors but three pipes, a session and
// process group of its own, and limits on memory, CPU time, descriptors, processes and file size. On Linux it also has
// no capabilities, no new privileges, its own user, network, PID and IPC namespaces where the kernel permits, a
// Landlock rule set that leaves only the paths that its owner may read, and a seccomp allowlist without sockets, exec,
// fork, ptrace, kill and, unless there are such paths, open. Before a child takes its first call, it tries the
// forbidden operations and reports which restrictions hold. Mode decides whether a missing one is an error.
//
// # Invariants
//
//   - A child belongs to one Owner (a repository and a trust level) from its first call on and never serves another.
//   - A child processes one call at a time. Cancelling or timing out a call ends the child.
//   - No child outlives its parent: the kernel kills it where it can, and a child whose standard input ends exits.
//   - The parent trusts nothing that a child sends: sizes are checked before memory is reserved, texts are escaped and
//     bounded, an unexpected message ends the child. The parent decodes answers itself and must validate them.
//   - Credentials never enter a child. Code that answers a child's question must not put one into the answer.
//
// The package is not API: it can change in every release.
package worker
