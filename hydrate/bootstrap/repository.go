package bootstrap

import (
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"strings"

	"github.com/sluice-gitops/sluice/internal/giturl"
)

// Forge is the kind of server that commit statuses are written to.
type Forge string

// The forges. Guess selects one by the name of the host.
const (
	Guess  Forge = ""
	GitHub Forge = "github"
	GitLab Forge = "gitlab"
	Gitea  Forge = "gitea" // and Forgejo
	None   Forge = "none"
)

// Forges are the names that a user may choose.
func Forges() []string { return []string{string(GitHub), string(GitLab), string(Gitea), string(None)} }

// Repository is the repository with the branches, as clusters reach it.
type Repository struct {
	URL  string // to clone: https, http or ssh, without credentials
	host string // of the forge
	path string // on the host, without .git
	web  string // scheme and host of the forge
}

var scpAddress = regexp.MustCompile(`^([^/:@]+@)?([^/:@]{2,}):([^/\\].*|/.*)$`)

// ParseRepository parses the address of a repository in a form that Git accepts, including scp's host:path, and
// removes credentials.
func ParseRepository(address string) (Repository, error) {
	written := address
	if m := scpAddress.FindStringSubmatch(address); m != nil && !strings.Contains(address, "://") {
		user := m[1]
		if user == "" {
			user = "git@"
		}
		written = "ssh://" + user + m[2] + "/" + strings.TrimLeft(m[3], "/")
	}
	u, err := url.Parse(written)
	if err != nil { // the message must not show the address, which may contain credentials
		return Repository{}, errors.New("the repository's address cannot be read: give --url, such as https://github.com/acme/fleet")
	}
	u.RawQuery, u.ForceQuery, u.Fragment, u.RawFragment = "", false, "", ""
	host := giturl.WebHost(u.Hostname())
	r := Repository{host: host, path: strings.TrimSuffix(strings.Trim(u.Path, "/"), ".git"), web: "https://" + host}
	switch u.Scheme {
	case "https", "http":
		u.User = nil
		r.web = u.Scheme + "://" + u.Host
	case "ssh":
		if u.User != nil {
			u.User = url.User(u.User.Username())
		}
	default:
		return Repository{}, errors.New("clusters reach a repository only by https, http or ssh: give --url, such as https://github.com/acme/fleet")
	}
	if r.host == "" || r.path == "" {
		return Repository{}, errors.New("the address does not name a repository on a host: give --url, such as https://github.com/acme/fleet")
	}
	r.URL = u.String()
	return r, nil
}

// Page is the repository's page on its forge.
func (r Repository) Page() string { return r.web + "/" + r.path }

// ForgeOf returns the forge that gets commit statuses: want or, for Guess, the one whose name the host contains.
func (r Repository) ForgeOf(want Forge) (Forge, error) {
	switch want {
	case GitHub, GitLab, Gitea:
		if want == GitHub && strings.Count(r.path, "/") != 1 {
			return "", fmt.Errorf("%s is not a repository of GitHub: write owner/name", r.path)
		}
		return want, nil
	case None:
		return want, nil
	case Guess:
		for _, f := range []struct {
			part string
			is   Forge
		}{{"github", GitHub}, {"gitlab", GitLab}, {"gitea", Gitea}, {"forgejo", Gitea}, {"codeberg.org", Gitea}} {
			if strings.Contains(r.host, f.part) {
				return r.ForgeOf(f.is)
			}
		}
		return "", fmt.Errorf("the host %s does not say which forge it is: give --forge %s (with none, nothing writes commit statuses)", r.host, strings.Join(Forges(), ", "))
	}
	return "", fmt.Errorf("%q is not a forge: use one of %s", want, strings.Join(Forges(), ", "))
}
