package fetch

import (
	"encoding/hex"
	"net"
	"net/url"
	"path"
	"strings"

	"oras.land/oras-go/v2/registry"

	"github.com/sluice-gitops/sluice/internal/safetext"
)

// Ref is a remote chart as the fleet or a Chart.yaml asks for it.
//
// Repo is the URL of a chart repository (`https://charts.example.com`) and Chart the name there; or Repo is empty and
// Chart is `oci://registry/path/name`; or Repo is `oci://registry/path` and Chart the last part, as in Chart.yaml.
// Version is exact or a semver range, `*` being the newest stable one. In an OCI registry it can be an exact one with
// the digest of the manifest, VERSION@sha256:DIGEST: then it does not matter what the tag means.
type Ref struct{ Repo, Chart, Version string }

// Locked is one version of a chart and the digest (`sha256:` and 64 hex digits) of its archive's bytes. For OCI that is
// the digest of the chart layer, so that it does not matter what becomes of the tag.
type Locked struct{ Version, Digest string }

const (
	ociScheme  = "oci"
	maxRefPart = 1024 // bytes of a URL or name; longer ones are mistakes or attacks
	maxVersion = 256
)

// String names the chart for people. It never shows user information or a query, even of a Ref that is refused.
func (r Ref) String() string {
	s := display(r.Chart)
	if r.Version != "" {
		s += " " + safetext.Brief(r.Version, 60)
	}
	if r.Repo != "" {
		s += " from " + display(r.Repo)
	}
	return s
}

// Check reports whether the reference is one that this package can resolve, without any network.
func (r Ref) Check() error {
	where, err := r.place()
	if err == nil {
		_, err = r.wanted(where)
	}
	if err != nil {
		return wrap(r, err)
	}
	return nil
}

// normal returns the form in which references are compared and locked: `oci://` joined into Chart, no trailing slashes.
func (r Ref) normal() Ref {
	r.Repo = strings.TrimRight(r.Repo, "/")
	if strings.HasPrefix(r.Repo, ociScheme+"://") {
		r.Repo, r.Chart = "", r.Repo+"/"+strings.Trim(r.Chart, "/")
	}
	if r.Repo == "" {
		r.Chart = strings.TrimRight(r.Chart, "/")
	}
	return r
}

// place is the location of a chart: a chart repository with a name (repo and chart), or an OCI name.
type place struct {
	repo  *url.URL
	chart string
	oci   *registry.Reference
}

func (r Ref) place() (place, error) {
	if len(r.Repo) > maxRefPart || len(r.Chart) > maxRefPart {
		return place{}, fail(ErrInvalid, "the name or URL is longer than %d bytes", maxRefPart)
	}
	if r.Chart == "" {
		return place{}, fail(ErrInvalid, "the chart's name is empty")
	}
	n := r.normal()
	if n.Repo == "" {
		if !strings.HasPrefix(n.Chart, ociScheme+"://") {
			return place{}, fail(ErrInvalid,
				"no `repo` is given: name the chart repository's URL, or write the chart as oci://REGISTRY/PATH")
		}
		name, err := parseOCI(n.Chart)
		if err != nil {
			return place{}, err
		}
		if name.Reference != "" {
			return place{}, fail(ErrInvalid, "the tag or digest belongs into `version`, not into the oci:// name")
		}
		return place{oci: &name}, nil
	}
	if strings.HasPrefix(n.Repo, "@") || strings.HasPrefix(n.Repo, "alias:") {
		return place{}, fail(ErrInvalid, "a repository's short name means something on one machine only: write its URL")
	}
	repo, err := parseURL(n.Repo)
	if err != nil {
		return place{}, err
	}
	if repo.RawQuery != "" || repo.ForceQuery {
		return place{}, fail(ErrInvalid,
			"a repository's URL must have no query: it would be committed, and it often holds a secret")
	}
	if !plainName(n.Chart) {
		return place{}, fail(ErrInvalid,
			"the chart's name has characters that no chart has: use the name that the repository's index shows")
	}
	return place{repo: repo, chart: n.Chart}, nil
}

// parseURL accepts http and https URLs without user information. Its errors never quote the text: a
// credential in a text that cannot be parsed cannot be removed.
func parseURL(text string) (*url.URL, error) {
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Opaque != "":
		return nil, fail(ErrInvalid, "the repository is not a URL: write it as https://HOST/PATH")
	case u.User != nil:
		return nil, fail(ErrInvalid,
			"credentials in a URL are refused: take them out, and give them by %s, Helm's repositories.yaml or Docker's config.json",
			envHint(u.Host))
	case u.Scheme != "https" && u.Scheme != "http":
		return nil, fail(ErrInvalid,
			"the scheme %q is not supported: use https:// or oci://, or put the chart into this repository and name its path",
			safetext.Brief(u.Scheme, 20))
	case u.Hostname() == "" || u.Fragment != "" || strings.ContainsAny(text, " \t\r\n"):
		return nil, fail(ErrInvalid,
			"the URL needs a host and must have neither spaces nor a fragment: write it as https://HOST/PATH")
	}
	u.Host = strings.ToLower(u.Host)
	return u, nil
}

// parseOCI reads `oci://registry/path[:tag]`.
func parseOCI(text string) (registry.Reference, error) {
	rest := strings.TrimPrefix(text, ociScheme+"://")
	host, repository, _ := strings.Cut(rest, "/")
	if strings.Contains(host, "@") {
		return registry.Reference{},
			fail(ErrInvalid, "credentials in a URL are refused: take them out, and give them by `helm registry login`, `docker login` or %s",
				envHint(host[strings.LastIndex(host, "@")+1:]))
	}
	if i := strings.LastIndex(repository, ":"); i >= 0 {
		repository = repository[:i] + strings.ReplaceAll(repository[i:], "+", "_")
	}
	ref, err := registry.ParseReference(strings.ToLower(host) + "/" + repository)
	if err != nil || ref.Repository == "" {
		return registry.Reference{},
			fail(ErrInvalid, "the name is not that of a registry and repository: write it as oci://REGISTRY/PATH, in lower case")
	}
	return ref, nil
}

func plainName(s string) bool {
	for _, c := range s {
		if c <= ' ' || c == '/' || c == '\\' || c == '?' || c == '#' || c == '@' || c == ':' || c == 0x7f {
			return false
		}
	}
	return s != "." && s != ".." && len(s) <= 250
}

// VendorPath is the slash path, in the source repository, at which `sluice deps vendor` stores the archive. It is safe
// on every file system; different archives have different paths.
func VendorPath(r Ref, l Locked) string {
	name := path.Base(r.normal().Chart)
	digest, _ := hexDigest(l.Digest)
	if digest == "" {
		digest = hex.EncodeToString(make([]byte, 6))
	}
	return "vendor/charts/" + fileSafe(name, 100) + "-" + fileSafe(l.Version, 60) + "-" + digest[:12] + ".tgz"
}

func fileSafe(s string, limit int) string {
	safe := strings.Map(func(c rune) rune {
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '.', c == '_', c == '-', c == '+':
			return c
		}
		return '_'
	}, s)
	return safe[:min(len(safe), limit)]
}

// display returns a URL or name without credentials, for errors.
func display(text string) string {
	if !strings.ContainsAny(text, "@?#") {
		return safetext.Brief(text, 200)
	}
	u, err := url.Parse(text)
	if err != nil || u.Opaque != "" || u.Host == "" || strings.Contains(u.Host, "@") {
		return "(an address that is not shown, it may hold a credential)"
	}
	clean := url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}
	if strings.Contains(u.Path, "@") {
		clean.Path = "/…"
	}
	return safetext.Brief(clean.Scheme+"://"+clean.Host+clean.Path, 200)
}

// origin returns scheme, host and port: a credential belongs to one origin.
func origin(u *url.URL) string {
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	return u.Scheme + "://" + net.JoinHostPort(strings.ToLower(u.Hostname()), port)
}

func loopback(host string) bool {
	if host == "localhost" || strings.HasSuffix(host, ".localhost") {
		return true
	}
	ip := net.ParseIP(host)
	return ip != nil && ip.IsLoopback()
}
