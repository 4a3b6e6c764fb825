package fleet

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// maxArtifact is the longest name of a repository that registries accept, with the registry's own name.
const maxArtifact = 255

// The names that registries accept: https://github.com/opencontainers/distribution-spec/blob/v1.1.1/spec.md
var (
	artifactHost = regexp.MustCompile(`^[a-z0-9]([-a-z0-9.]*[a-z0-9])?(:[0-9]+)?$`)
	artifactPart = regexp.MustCompile(`^[a-z0-9]+((\.|_|__|-+)[a-z0-9]+)*$`)
	artifactTag  = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9._-]*$`)
	commitTag    = regexp.MustCompile(`^[0-9a-f]+$`)
)

// movingTag reports whether a name can be the tag that moves with a branch. The tags of commits and of signatures are
// Sluice's own.
func movingTag(t string) bool {
	const longest, sha1, sha256 = 128, 40, 64
	return artifactTag.MatchString(t) && len(t) <= longest && !strings.HasPrefix(t, "sha256-") &&
		(len(t) != sha1 && len(t) != sha256 || !commitTag.MatchString(t))
}

// ociScheme begins the name of a place in a registry.
const ociScheme = "oci://"

// CheckRegistry returns an error unless a text is a place in a registry, such as oci://registry.example.com/gitops.
func CheckRegistry(place string) error {
	rest, ok := strings.CutPrefix(place, ociScheme)
	host, inner, hasPath := strings.Cut(strings.TrimSuffix(rest, "/"), "/")
	switch {
	case strings.Contains(host, "@"):
		return errors.New("the name of a registry must not hold credentials")
	case !ok || !artifactHost.MatchString(host) || hasPath && !artifactPath(inner):
		return fmt.Errorf("%q is not a place in a registry", place)
	}
	return nil
}

// at returns the output with the branches and the artifacts at a place in a registry, unless that is "". If the
// branches are in a registry, so are the artifacts.
func (o Output) at(place string) Output {
	if place != "" {
		o.Repository = place
	}
	switch {
	case !strings.HasPrefix(o.Repository, ociScheme):
	case o.OCI == nil:
		o.OCI = &OCIOutput{Repository: o.Repository}
	case place != "":
		own := *o.OCI
		own.Repository = place
		o.OCI = &own
	}
	return o
}

// OutputRegistry returns the repository of a registry that has the branches, such as
// oci://registry.example.com/gitops/acme; "" if they are in a Git repository.
func (f *Fleet) OutputRegistry() string {
	place := f.Spec.Output.Repository
	if !strings.HasPrefix(place, ociScheme) {
		return ""
	}
	return strings.TrimSuffix(place, "/") + "/" + f.Name
}

// Publishes reports whether the fleet has artifacts in a registry.
func (f *Fleet) Publishes() bool { return f.Spec.Output.OCI != nil }

// Artifacts returns the repository below which the artifacts of clusters are, such as
// oci://registry.example.com/gitops/acme; "" if the fleet has none.
func (f *Fleet) Artifacts() string {
	if !f.Publishes() {
		return ""
	}
	return strings.TrimSuffix(f.Spec.Output.OCI.Repository, "/") + "/" + f.Name
}

// Artifact returns the repository of a cluster's artifact, such as oci://registry.example.com/gitops/acme/eu-1; "" if
// the fleet has none.
func (f *Fleet) Artifact(c *Cluster) string {
	if !f.Publishes() {
		return ""
	}
	return f.Artifacts() + "/" + c.Name
}

// SignsArtifacts reports whether artifacts are signed.
func (f *Fleet) SignsArtifacts() bool {
	return f.Publishes() && (f.Spec.Output.OCI.Key != "" || f.Spec.Output.OCI.Identity != nil)
}

// ArtifactTag returns the tag of artifacts that moves with the cluster branch.
func (f *Fleet) ArtifactTag() string {
	if !f.Publishes() {
		return ""
	}
	return cmp.Or(f.Spec.Output.OCI.Tag, "latest")
}

// WaveTag returns the second tag of artifacts of clusters in a wave, such as prod-canary, or prod without a wave; "" if
// artifacts have none.
func (f *Fleet) WaveTag(environment, wave string) string {
	switch {
	case !f.Publishes() || !f.Spec.Output.OCI.WaveTags:
		return ""
	case wave == "":
		return environment
	}
	return environment + "-" + wave
}

// artifacts checks the names of artifacts. It reports clusters whose names a registry refuses.
func (fc fleetChecks) artifacts() {
	out := fc.fleet.Spec.Output.OCI
	if out == nil {
		return
	}
	at := []string{"spec", "output", "oci"}
	const hint = "such as oci://registry.example.com/gitops, in lower case, without a tag and without credentials, which come from the environment"
	switch {
	case CheckRegistry(out.Repository) != nil:
		fc.errorf(fc.file, append(at, "repository"), hint, "%v", CheckRegistry(out.Repository))
		return
	case !artifactPart.MatchString(fc.fleet.Name):
		fc.errorf(fc.file, []string{"metadata", "name"}, "lower-case letters and digits, with single dots, dashes or underscores between them",
			"the name of the fleet is a part of the names of its artifacts, and registries do not accept %q", fc.fleet.Name)
		return
	}
	if t := fc.fleet.ArtifactTag(); !movingTag(t) {
		fc.errorf(fc.file, append(at, "tag"), "such as latest", "%q cannot be the tag that moves with a cluster branch", t)
	}
	for _, e := range fc.fleet.Spec.Environments {
		tags := []string{fc.fleet.WaveTag(e.Name, "")}
		for _, w := range e.Promotion.Waves {
			tags = append(tags, fc.fleet.WaveTag(e.Name, w.Name))
		}
		for _, t := range tags {
			if t != "" && (!movingTag(t) || t == fc.fleet.ArtifactTag()) {
				fc.errorf(fc.file, append(slices.Clone(at), "waveTags"), "rename the environment or the wave, or give other artifacts another tag",
					"%q cannot be the second tag of artifacts", t)
			}
		}
	}
	fc.checkPath(fc.file, append(at, "key"), out.Key, nil)
	if i := out.Identity; i != nil {
		if out.Key != "" {
			fc.errorf(fc.file, append(at, "identity"), "keep one of them", "artifacts are signed with a key or by an identity, not both")
		}
		fc.checkPath(fc.file, append(at, "identity", "trustedRoot"), i.TrustedRoot, nil)
	}
	for _, c := range fc.fleet.Clusters {
		if name := strings.TrimPrefix(fc.fleet.Artifact(c), ociScheme); !artifactPart.MatchString(c.Name) || len(name) > maxArtifact {
			fc.errorf(c.doc, []string{"metadata", "name"}, "letters and digits, with single dots or dashes between them; at most 255 characters in all",
				"registries do not accept %q as the name of the cluster's artifact", name)
		}
	}
}

func artifactPath(s string) bool {
	for part := range strings.SplitSeq(s, "/") {
		if !artifactPart.MatchString(part) {
			return false
		}
	}
	return true
}
