package argocd

import (
	"path"
	"regexp"
)

// Settings are what the files of a commit say about the Argo CD that reads them.
type Settings struct {
	EnableHelm bool // Argo CD renders helmCharts of kustomizations
	Installed  []Installed
}

// enableHelm finds the setting of argocd-cm in its ConfigMap, a patch of it or the values of Argo CD's chart. A comment
// is no setting.
var enableHelm = regexp.MustCompile(`(?m)^(?:[^#\n]*[ \t"'{,])?kustomize\.buildOptions["']?[ \t]*:[ \t]*["']?[^#\n]*--enable-helm(?:=true)?(?:["'\s},]|$)`)

var installArchive = regexp.MustCompile(`^argo-cd-\d\S*\.tgz$`)

// FindSettings reads the settings from all YAML and JSON files of the commit, locks of charts and packed copies of Argo
// CD's.
func FindSettings(o Options) (Settings, error) {
	i := &importer{Options: o}
	if err := i.list("."); err != nil {
		return Settings{}, err
	}
	var out Settings
	for _, name := range i.files {
		archive := installArchive.MatchString(path.Base(name))
		lock := path.Base(name) == "Chart.lock" || name == "sluice.lock"
		if !isManifest(name) && !archive && !lock {
			continue
		}
		data, err := i.Tree.ReadFile(name)
		if err != nil {
			return Settings{}, err
		}
		if archive {
			out.Installed = append(out.Installed, installsArchive(name, data)...)
			continue
		}
		out.EnableHelm = out.EnableHelm || enableHelm.Match(data)
		out.Installed = append(out.Installed, installs(name, data)...)
	}
	out.Installed = replaced(out.Installed)
	return out, nil
}
