package fleet

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/Masterminds/semver/v3"
)

// NewestKubeVersion is the first release of the newest minor version of Kubernetes whose types this binary has.
const NewestKubeVersion = "1.37.0"

// Capabilities are what charts see of a cluster.
type Capabilities struct {
	KubeVersion string   // such as 1.33.2
	APIVersions []string // as group/version or group/version/Kind
}

// Raise is a version of Kubernetes that clusters get which have an older one.
type Raise struct {
	KubeVersion string                              // such as 1.34.0
	Served      func(apiVersions []string) []string // the APIs of a list that the version still serves
}

// raise gives a cluster the version, if its own is of an older minor version.
func (r *Raise) raise(c *Cluster) {
	to, err := semver.NewVersion(r.KubeVersion)
	own, failed := semver.NewVersion(c.ChartVersion())
	if err != nil || failed != nil || own.Major() > to.Major() || own.Major() == to.Major() && own.Minor() >= to.Minor() {
		return
	}
	c.KubeVersion, c.APIVersions = r.KubeVersion, r.Served(c.APIVersions)
}

// CapabilitiesDir has a file for each cluster whose capabilities a user wrote with the command of `sluice
// capabilities`.
const CapabilitiesDir = "capabilities"

// CapabilitiesFile returns the path of the file that has the capabilities of a cluster.
func CapabilitiesFile(cluster string) string { return path.Join(CapabilitiesDir, cluster+".txt") }

// ChartVersion returns the Kubernetes version that charts see: the cluster's, or the newest that Sluice knows.
func (c *Cluster) ChartVersion() string { return cmp.Or(c.KubeVersion, NewestKubeVersion) }

// CheckKubeVersion returns an error for a text that is not a version of Kubernetes.
func CheckKubeVersion(version string) error {
	if _, err := semver.NewVersion(version); err != nil {
		return fmt.Errorf("%q is not a version", version)
	}
	return nil
}

// SkipsMinor reports whether an upgrade leaves out a minor version of Kubernetes, and returns the first that it must not
// leave out, such as 1.36. Versions that are none skip nothing.
func SkipsMinor(from, to string) (string, bool) {
	a, err := semver.NewVersion(from)
	b, failed := semver.NewVersion(to)
	if err != nil || failed != nil || a.Major() != b.Major() || b.Minor() <= a.Minor()+1 {
		return "", false
	}
	return fmt.Sprintf("%d.%d", a.Major(), a.Minor()+1), true
}

// OlderMinor reports whether a version of Kubernetes is of an older minor version than another one. Texts that are no
// versions are not older, and nothing is older than they are.
func OlderMinor(version, than string) bool {
	a, err := semver.NewVersion(version)
	b, failed := semver.NewVersion(than)
	return err == nil && failed == nil && (a.Major() < b.Major() || a.Major() == b.Major() && a.Minor() < b.Minor())
}

var (
	serverVersion = regexp.MustCompile(`^Server Version: (?:v|version\.Info\{.*GitVersion:"v)([0-9][^",\s]*)`)
	ignoredLine   = regexp.MustCompile(`^(?:#|Client Version:|Kustomize Version:|WARNING:)`)
	apiVersion    = regexp.MustCompile(`^(?:[a-z0-9][a-z0-9.-]*/)?v[0-9][a-z0-9]*$`)
	apiKind       = regexp.MustCompile(`^(?:[a-z0-9][a-z0-9.-]*/)?v[0-9][a-z0-9]*(?:/[A-Z][A-Za-z0-9]*)?$`)
)

// CheckAPIVersion returns an error for a text that is not an API that charts can ask for, such as apps/v1 or
// apps/v1/Deployment.
func CheckAPIVersion(api string) error {
	if !apiKind.MatchString(api) {
		return fmt.Errorf("%q is neither group/version nor group/version/Kind", api)
	}
	return nil
}

// parseCapabilities reads what `kubectl version`, `kubectl api-versions` and `kubectl api-resources` print, one after
// the other. Lines of another form are an error, as is a text that lacks the output of one of them: a command that
// failed must not look like a cluster that serves less.
func parseCapabilities(text string) (Capabilities, error) {
	var out Capabilities
	n, resources := 0, false
	for line := range strings.Lines(text) {
		n++
		line = strings.TrimSpace(line)
		words := strings.Fields(line)
		version := serverVersion.FindStringSubmatch(line)
		switch {
		case line == "" || ignoredLine.MatchString(line):
		case version != nil:
			out.KubeVersion = version[1]
		case len(words) == 1 && apiVersion.MatchString(line):
			out.APIVersions = append(out.APIVersions, line)
		case words[0] == "NAME": // the header of api-resources
			resources = true
		case len(words) >= 4 && apiVersion.MatchString(words[len(words)-3]) &&
			slices.Contains([]string{"true", "false"}, words[len(words)-2]):
			out.APIVersions = append(out.APIVersions, words[len(words)-3]+"/"+words[len(words)-1])
		default:
			return Capabilities{}, &lineError{
				n,
				fmt.Sprintf("%.60q is no line of kubectl version, api-versions or api-resources", line),
			}
		}
	}
	switch {
	case out.KubeVersion == "":
		return Capabilities{}, errors.New("the version of the server is missing, such as `Server Version: v1.33.2`")
	case CheckKubeVersion(out.KubeVersion) != nil:
		return Capabilities{}, fmt.Errorf("the version of the server, %q, is not a version", out.KubeVersion)
	case !slices.Contains(out.APIVersions, "v1"):
		return Capabilities{}, errors.New("the output of `kubectl api-versions` is missing: it has the line v1")
	case !resources:
		return Capabilities{}, errors.New("the output of `kubectl api-resources` is missing: it begins with NAME")
	}
	slices.Sort(out.APIVersions)
	out.APIVersions = slices.Compact(out.APIVersions)
	return out, nil
}

// lineError is an error in a line of a text.
type lineError struct {
	line    int
	message string
}

func (e *lineError) Error() string { return fmt.Sprintf("line %d: %s", e.line, e.message) }

// capabilities gives a cluster those of its file, and then those that the loader's caller assumes. own is the version
// that the declaration at a place in doc names itself.
func (l *loader) capabilities(c *Cluster, own string, doc document, at ...string) {
	l.readCapabilities(c, own, doc, at...)
	c.KubeVersion = cmp.Or(l.assumed.KubeVersion, c.KubeVersion)
	if len(l.assumed.APIVersions) > 0 { // the list may belong to a file, which is decoded once
		c.APIVersions = slices.Concat(c.APIVersions, l.assumed.APIVersions)
	}
	if l.raised != nil {
		l.raised.raise(c)
	}
}

func (l *loader) readCapabilities(c *Cluster, own string, doc document, at ...string) {
	name := CapabilitiesFile(c.Name)
	if !l.hasCapabilities(c.Name) {
		return
	}
	problem := Problem{
		File: name, Severity: SeverityError,
		Hint: fmt.Sprintf("write the file again with the command that `sluice capabilities %s` prints", c.Name),
	}
	data, err := readBounded(l.tree, name)
	if err != nil {
		problem.Message = readError(err)
		l.problems = append(l.problems, problem)
		return
	}
	found, err := parseCapabilities(string(data))
	if err != nil {
		problem.Message = err.Error()
		if at, ok := errors.AsType[*lineError](err); ok {
			problem.Line, problem.Message = at.line, at.message
		}
		l.problems = append(l.problems, problem)
		return
	}
	if own = strings.TrimPrefix(own, "v"); own != "" && !beginsWith(found.KubeVersion, own) {
		l.errorf(doc, at, "remove it here, or "+problem.Hint, "the cluster %s has kubeVersion %s, and %s says %s",
			c.Name, own, name, found.KubeVersion)
	}
	c.KubeVersion = found.KubeVersion
	c.APIVersions = slices.Concat(c.APIVersions, found.APIVersions)
	slices.Sort(c.APIVersions)
	c.APIVersions = slices.Compact(c.APIVersions)
}

// beginsWith reports whether a version begins with the whole numbers of another one, as 1.33.2 does with 1.33, and not
// with 1.3.
func beginsWith(version, other string) bool {
	rest, ok := strings.CutPrefix(version, other)
	return ok && (rest == "" || rest[0] < '0' || rest[0] > '9')
}

// unusedCapabilities warns of files whose cluster does not exist.
func (l *loader) unusedCapabilities() {
	for _, name := range slices.Sorted(maps.Keys(l.describedFiles())) {
		cluster, ok := strings.CutSuffix(name, ".txt")
		if ok && l.fleet.clusters[cluster] == nil {
			l.problems = append(l.problems, Problem{
				File: path.Join(CapabilitiesDir, name), Severity: SeverityWarning,
				Message: fmt.Sprintf("there is no cluster %q, so nothing reads the file", cluster),
				Hint:    "give it the name of a cluster, or delete it",
			})
		}
	}
}

// hasCapabilities reports whether a cluster has a file.
func (l *loader) hasCapabilities(cluster string) bool {
	return l.describedFiles()[path.Base(CapabilitiesFile(cluster))]
}

// describedFiles are the names in the folder, which is listed once.
func (l *loader) describedFiles() map[string]bool {
	if l.described == nil {
		l.described = map[string]bool{}
		entries, err := l.tree.ReadDir(CapabilitiesDir)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			if info, failed := l.tree.Stat(CapabilitiesDir); failed != nil || info.IsDir() {
				unlisted(l.findings, err)
			}
		}
		for _, e := range entries {
			l.described[e.Name()] = true
		}
	}
	return l.described
}
