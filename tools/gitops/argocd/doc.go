// Package argocd checks the importer of Argo CD repositories with Argo CD's own code, which the package argoref calls:
// the generators of its ApplicationSet controller and the manifest generation of its repository server. It is a
// separate module, because Argo CD replaces the versions of Kubernetes' libraries. Versions of Argo CD after 3.2 cannot
// be fetched as modules or need a newer Go.
package argocd
