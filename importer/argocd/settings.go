package argocd

import "regexp"

// Settings are what the files of a commit say about the Argo CD that reads them.
type Settings struct {
	EnableHelm bool // Argo CD renders helmCharts of kustomizations
	Installed  []Installed
}

// enableHelm finds the setting of argocd-cm in its ConfigMap, a patch of it or the values of Argo CD's chart. A comment
// is no setting.
var enableHelm = regexp.MustCompile(`(?m)^(?:[^#\n]*[ \t"'{,])?kustomize\.buildOptions["']?[ \t]*:[ \t]*["']?[^#\n]*--enable-helm(?:=true)?(?:["'\s},]|$)`)

// FindSettings reads the settings from all YAML and JSON files of the commit.
func FindSettings(o Options) (Settings, error) {
	i := &importer{Options: o}
	if err := i.list("."); err != nil {
		return Settings{}, err
	}
	var out Settings
	for _, name := range i.files {
		if !isManifest(name) {
			continue
		}
		data, err := i.Tree.ReadFile(name)
		if err != nil {
			return Settings{}, err
		}
		out.EnableHelm = out.EnableHelm || enableHelm.Match(data)
		out.Installed = append(out.Installed, installs(name, data)...)
	}
	return out, nil
}
