package fleet

import (
	"fmt"
	"path"
	"strconv"
	"strings"

	"github.com/Masterminds/semver/v3"
)

// upgrades checks spec.upgrades.
func (fc fleetChecks) upgrades() {
	u := fc.fleet.Spec.Upgrades
	for i := range u.Addons {
		if field, err := u.Addons[i].check(); err != nil {
			at := append([]string{"spec", "upgrades", "addons", strconv.Itoa(i)}, field...)
			fc.errorf(fc.file, at, "see docs/upgrade-plan.md", "the add-on %s: %v", u.Addons[i].Name, err)
		}
	}
	for i, a := range u.APIs {
		at := []string{"spec", "upgrades", "apis", strconv.Itoa(i)}
		switch {
		case CheckAPIVersion(a.APIVersion) != nil || strings.Count(a.APIVersion, "/") > 1:
			fc.errorf(fc.file, append(at, "apiVersion"), "such as example.com/v1alpha1", "%q is no apiVersion", a.APIVersion)
		case a.DeprecatedIn == "" && a.RemovedIn == "":
			fc.errorf(fc.file, at, "add removedIn or deprecatedIn, such as 1.36", "%s %s has no end of life", a.APIVersion,
				a.Kind)
		}
		for _, pair := range [][2]string{{"deprecatedIn", a.DeprecatedIn}, {"removedIn", a.RemovedIn}} {
			field, version := pair[0], pair[1]
			if version != "" && (CheckKubeVersion(version) != nil || !strings.Contains(version, ".")) {
				fc.errorf(fc.file, append(at, field), "such as 1.36", "%q is no version of Kubernetes", version)
			}
		}
	}
}

// check returns the field that is wrong, and why.
func (a *UpgradeAddon) check() (field []string, err error) {
	switch {
	case len(a.Images) == 0:
		return nil, fmt.Errorf("it names no images, such as cilium/cilium")
	case (a.Kubernetes == "") == (a.Skew == nil):
		return nil, fmt.Errorf("it needs either kubernetes, such as `>=1.30 <=1.33`, or skew")
	case a.Skew != nil && (a.Skew.Older < 0 || a.Skew.Newer < 0):
		return []string{"skew"}, fmt.Errorf("skew must not be negative")
	}
	for _, p := range a.Images {
		if _, err := path.Match(p, ""); err != nil || strings.Trim(p, "/") != p || p == "" {
			return []string{"images"}, fmt.Errorf("%q is not the end of a repository, such as cilium/cilium", p)
		}
	}
	for _, pair := range [][2]string{{"versions", a.Versions}, {"kubernetes", a.Kubernetes}} {
		field, text := pair[0], pair[1]
		const longest = 200
		if len(text) > longest {
			return []string{field}, fmt.Errorf("the range has more than %d characters", longest)
		}
		if text == "" {
			continue
		}
		if _, err := semver.NewConstraint(text); err != nil {
			return []string{field}, fmt.Errorf("%q is not a range of versions, such as `>=1.30 <=1.33`", text)
		}
	}
	return nil, nil
}
