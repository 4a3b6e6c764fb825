// Package argocd checks the importer of Argo CD repositories with Argo CD's own code, which the package argoref calls:
// the generators of its ApplicationSet controller and the manifest generation of its repository server. It is a
// separate module, because Argo CD replaces the versions of Kubernetes' libraries. It is built with Argo CD
// 3.5, which ships Helm 4, and with -modfile=argocd-3.2.mod -tags=argocd32 with Argo CD 3.2, which ships Helm 3.
package argocd
