package bootstrap

import (
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"strings"
)

// Forge is where commit statuses are written.
type Forge string

// The forges. Guess lets the host's name decide.
const (
	Guess  Forge = ""
	GitHub Forge = "github"
	GitLab Forge = "gitlab"
	None   Forge = "none"
)

// Forges are the names that a user may choose.
func Forges() []string { return []string{string(GitHub), string(GitLab), string(None)} }

// Repository is where the branches are, as the clusters see it.
type Repository struct {
	URL  string // to clone: https, http or ssh, without credentials
	host string
	path string // on the host, without .git
	web  string // scheme and host of the forge
}

// ParseRepository reads the address of a repository as Git writes it, scp's host:path too, and takes credentials out.
func ParseRepository(address string) (Repository, error) {
	written := address
	if m := regexp.MustCompile(`^([^/:@]+@)?([^/:@]{2,}):([^/\\].*|/.*)$`).FindStringSubmatch(address); m != nil && !strings.Contains(address, "://") {
		user := m[1]
		if user == "" {
			user = "git@"
		}
		written = "ssh://" + user + m[2] + "/" + strings.TrimLeft(m[3], "/")
	}
	u, err := url.Parse(written)
	if err != nil { // no text here shows the address: there may be credentials in it
		return Repository{}, errors.New("the repository's address cannot be read: give --url, such as https://github.com/acme/fleet")
	}
	u.RawQuery, u.ForceQuery, u.Fragment, u.RawFragment = "", false, "", ""
	r := Repository{host: u.Hostname(), path: strings.TrimSuffix(strings.Trim(u.Path, "/"), ".git"), web: "https://" + u.Hostname()}
	switch u.Scheme {
	case "https", "http":
		u.User = nil
		r.web = u.Scheme + "://" + u.Host
	case "ssh":
		if u.User != nil {
			u.User = url.User(u.User.Username())
		}
	default:
		return Repository{}, errors.New("clusters can reach a repository by https, http or ssh alone: give --url, such as https://github.com/acme/fleet")
	}
	if r.host == "" || r.path == "" {
		return Repository{}, errors.New("the address names no repository on a host: give --url, such as https://github.com/acme/fleet")
	}
	r.URL = u.String()
	return r, nil
}

// Page is the repository's page on its forge.
func (r Repository) Page() string { return r.web + "/" + r.path }

// ForgeOf is the forge that statuses are written to: the one that is wanted, or what the host's name says.
func (r Repository) ForgeOf(want Forge) (Forge, error) {
	switch want {
	case GitHub, GitLab:
		if want == GitHub && strings.Count(r.path, "/") != 1 {
			return "", fmt.Errorf("%s is no repository of GitHub: owner/name", r.path)
		}
		return want, nil
	case None:
		return want, nil
	case Guess:
		for _, f := range []Forge{GitHub, GitLab} {
			if strings.Contains(r.host, string(f)) {
				return r.ForgeOf(f)
			}
		}
		return "", fmt.Errorf("%s does not say which forge it is: give --forge %s; with none, nothing writes commit statuses", r.host, strings.Join(Forges(), ", "))
	}
	return "", fmt.Errorf("%q is no forge: one of %s", want, strings.Join(Forges(), ", "))
}
