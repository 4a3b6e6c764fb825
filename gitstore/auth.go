package gitstore

import (
	"errors"
	"fmt"
	"net"
	"strconv"
	"time"

	"github.com/go-git/go-git/v5/plumbing/transport"
	"github.com/go-git/go-git/v5/plumbing/transport/http"
	"github.com/go-git/go-git/v5/plumbing/transport/ssh"
	crypto "golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/agent"
)

// Auth holds the credentials for a remote. The zero value means no credentials; over SSH it means the keys of the
// agent.
type Auth struct {
	User, Password string // HTTP basic
	Token          string // an access token of a forge: sent as the password of HTTP basic, with User if that is set
	Bearer         string // a token that goes into `Authorization: Bearer`

	// PlainHTTP names hosts that may get these credentials over unencrypted HTTP; see plainhttp.Check.
	PlainHTTP []string

	CABundle []byte // PEM certificates of authorities for HTTPS, in addition to the system's

	SSHKeyFile       string // private key; "" is the agent
	SSHKeyPassphrase string
	SSHAgent         string   // the agent's socket; "" means SSH_AUTH_SOCK
	KnownHostsFiles  []string // required for SSH: unknown hosts are refused
}

// secrets lists the texts that errors must not contain.
func (a Auth) secrets() []string { return []string{a.Password, a.Token, a.Bearer, a.SSHKeyPassphrase} }

func (a Auth) method(ep *transport.Endpoint) (transport.AuthMethod, error) {
	switch ep.Protocol {
	case "http", "https":
		return a.http()
	case "ssh":
		return a.ssh(ep)
	}
	return nil, nil //nolint:nilnil // a path needs no credentials
}

func (a Auth) http() (transport.AuthMethod, error) {
	given := 0
	for _, secret := range []string{a.Password, a.Token, a.Bearer} {
		if secret != "" {
			given++
		}
	}
	switch {
	case given > 1:
		return nil, errors.New("only one of password, token and bearer token is allowed")
	case a.Bearer != "":
		return &http.TokenAuth{Token: a.Bearer}, nil
	case a.Token != "" && a.User == "":
		// forges ignore the user name of a token
		return &http.BasicAuth{Username: "x-access-token", Password: a.Token}, nil
	case a.Token != "":
		return &http.BasicAuth{Username: a.User, Password: a.Token}, nil
	case a.User != "" || a.Password != "":
		return &http.BasicAuth{Username: a.User, Password: a.Password}, nil
	}
	return nil, nil //nolint:nilnil // the zero AuthMethod: no credentials
}

func (a Auth) ssh(ep *transport.Endpoint) (transport.AuthMethod, error) {
	user, port := ep.User, ep.Port
	if user == "" {
		user = "git"
	}
	if port <= 0 {
		port = ssh.DefaultPort
	}
	scan := "create one with `" + keyscan(ep) + "` and compare its key with what the host's owner says"
	if len(a.KnownHostsFiles) == 0 {
		return nil, errors.New("no known_hosts file is given (SSH_KNOWN_HOSTS), and unknown hosts are refused: " + scan)
	}
	known, err := ssh.NewKnownHostsDb(a.KnownHostsFiles...)
	if err != nil {
		return nil, fmt.Errorf("read known_hosts: %w: %s", err, scan)
	}
	check := ssh.HostKeyCallbackHelper{
		HostKeyCallback: known.HostKeyCallback(),
		// If known_hosts has keys of several types, ask the host for one of these types.
		HostKeyAlgorithms: known.HostKeyAlgorithms(net.JoinHostPort(ep.Host, strconv.Itoa(port))),
	}
	if a.SSHKeyFile != "" {
		keys, err := ssh.NewPublicKeysFromFile(user, a.SSHKeyFile, a.SSHKeyPassphrase)
		if err != nil {
			return nil, fmt.Errorf("SSH key %s: %w", a.SSHKeyFile, err)
		}
		keys.HostKeyCallbackHelper = check
		return patient{keys}, nil
	}
	keys, err := a.agent(user)
	if err != nil {
		return nil, fmt.Errorf("no SSH agent: start one with `ssh-agent`, or name a key in SLUICE_SSH_KEY: %w", err)
	}
	keys.HostKeyCallbackHelper = check
	return patient{keys}, nil
}

func (a Auth) agent(user string) (*ssh.PublicKeysCallback, error) {
	if a.SSHAgent == "" {
		return ssh.NewSSHAgentAuth(user)
	}
	conn, err := net.Dial("unix", a.SSHAgent) //nolint:noctx // a local socket
	if err != nil {
		return nil, err
	}
	return &ssh.PublicKeysCallback{User: user, Callback: agent.NewClient(conn).Signers}, nil
}

// patient limits the time that a host may take to answer.
type patient struct{ ssh.AuthMethod }

// ClientConfig implements ssh.AuthMethod; it adds the time limit.
func (p patient) ClientConfig() (*crypto.ClientConfig, error) {
	const wait = 30 * time.Second
	c, err := p.AuthMethod.ClientConfig()
	if err == nil {
		c.Timeout = wait
	}
	return c, err
}

// keyscan returns the command that prints a host's key.
func keyscan(ep *transport.Endpoint) string {
	if ep.Port > 0 && ep.Port != ssh.DefaultPort {
		return fmt.Sprintf("ssh-keyscan -p %d %s >> ~/.ssh/known_hosts", ep.Port, ep.Host)
	}
	return "ssh-keyscan " + ep.Host + " >> ~/.ssh/known_hosts"
}
