package argocd

import "regexp"

// enableHelm finds the setting of argocd-cm in its ConfigMap, a patch of it or the values of Argo CD's chart. A comment
// is no setting.
var enableHelm = regexp.MustCompile(`(?m)^(?:[^#\n]*[ \t"'{,])?kustomize\.buildOptions["']?[ \t]*:[ \t]*["']?[^#\n]*--enable-helm(?:=true)?(?:["'\s},]|$)`)

// EnablesHelm reports whether a file of the commit tells Argo CD to render helmCharts of kustomizations.
func EnablesHelm(o Options) (bool, error) {
	i := &importer{Options: o}
	if err := i.list("."); err != nil {
		return false, err
	}
	for _, name := range i.files {
		if !isManifest(name) {
			continue
		}
		data, err := i.Tree.ReadFile(name)
		if err != nil {
			return false, err
		}
		if enableHelm.Match(data) {
			return true, nil
		}
	}
	return false, nil
}
