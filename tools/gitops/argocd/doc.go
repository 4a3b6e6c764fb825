// Package argocd holds the importer of Argo CD repositories to Argo CD's own code: the generators of its ApplicationSet controller and the
// manifest generation of its repository server. It is a module of its own, because Argo CD replaces the versions of Kubernetes'
// libraries. Newer versions of Argo CD than 3.2 cannot be fetched as modules or need a newer Go.
package argocd
