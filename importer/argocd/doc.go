// Package argocd reads a repository of Argo CD objects as Argo CD does: it finds Applications and ApplicationSets in
// the commit, generates the Applications of the sets, and follows the Applications that come out of Applications, to
// any depth.
//
// The outcome of a Kustomize or directory source equals what Argo CD's repository server makes of it, without the
// labels and annotations with which Argo CD tracks objects. A Helm source becomes a chart with values. A chart is
// rendered here only if it may bring Applications.
//
// The package reads one commit's tree and nothing else: no network, no cluster. An Application that cannot be read
// fails by itself. It runs templates of the repository, so content of a merge request must only be read in a worker
// process.
//
// The package is not API: it can change in every release.
package argocd
