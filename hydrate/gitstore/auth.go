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

// Auth holds the credentials for a remote. The zero value means none; over SSH it means the keys of the agent.
type Auth struct {
	User, Password string // HTTP basic
	Token          string // an access token as forges give them: the password of HTTP basic, for User if there is one
	Bearer         string // a token that goes into `Authorization: Bearer`

	// PlainHTTP names hosts that may get these credentials over unencrypted HTTP; see plainhttp.Check.
	PlainHTTP []string

	CABundle []byte // PEM certificates of authorities for HTTPS, in addition to the system's

	SSHKeyFile       string // private key; "" is the agent
	SSHKeyPassphrase string
	SSHAgent         string   // the agent's socket; "" is where the agent's library looks for it
	KnownHostsFiles  []string // needed for SSH: hosts not in them are refused
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
		return &http.BasicAuth{Username: "x-access-token", Password: a.Token}, nil // forges look at the token alone
	case a.Token != "":
		return &http.BasicAuth{Username: a.User, Password: a.Token}, nil
	case a.User != "" || a.Password != "":
		return &http.BasicAuth{Username: a.User, Password: a.Password}, nil
	}
	return nil, nil //nolint:nilnil // no credentials is a method too
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
		// The host must present the key that known_hosts has, if it has several.
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
	conn, err := net.Dial("unix", a.SSHAgent) //nolint:noctx // a socket of this machine
	if err != nil {
		return nil, err
	}
	return &ssh.PublicKeysCallback{User: user, Callback: agent.NewClient(conn).Signers}, nil
}

// patient bounds the time in which a host must answer.
type patient struct{ ssh.AuthMethod }

// ClientConfig adds the bound to the method's own.
func (p patient) ClientConfig() (*crypto.ClientConfig, error) {
	const wait = 30 * time.Second
	c, err := p.AuthMethod.ClientConfig()
	if err == nil {
		c.Timeout = wait
	}
	return c, err
}

// keyscan is the command that prints a host's key.
func keyscan(ep *transport.Endpoint) string {
	if ep.Port > 0 && ep.Port != ssh.DefaultPort {
		return fmt.Sprintf("ssh-keyscan -p %d %s >> ~/.ssh/known_hosts", ep.Port, ep.Host)
	}
	return "ssh-keyscan " + ep.Host + " >> ~/.ssh/known_hosts"
}
