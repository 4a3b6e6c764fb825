package gitstore

import (
	"errors"
	"fmt"

	"github.com/go-git/go-git/v5/plumbing/transport"
	"github.com/go-git/go-git/v5/plumbing/transport/http"
	"github.com/go-git/go-git/v5/plumbing/transport/ssh"
	sshagent "golang.org/x/crypto/ssh"
)

// Auth are the credentials for a remote. The zero value is none; over SSH it is the agent's keys.
type Auth struct {
	User, Password string // HTTP basic
	Token          string // HTTP bearer

	SSHKeyFile       string // private key; "" is the agent
	SSHKeyPassphrase string
	KnownHostsFiles  []string // needed for SSH: hosts not in them are refused
}

func (a Auth) method(ep *transport.Endpoint) (transport.AuthMethod, error) {
	switch ep.Protocol {
	case "http", "https":
		switch {
		case a.Token != "" && a.User == "":
			return &http.TokenAuth{Token: a.Token}, nil
		case a.Token != "":
			return &http.BasicAuth{Username: a.User, Password: a.Token}, nil
		case a.User != "" || a.Password != "":
			return &http.BasicAuth{Username: a.User, Password: a.Password}, nil
		}
		return nil, nil //nolint:nilnil // no credentials is a method too
	case "ssh":
		return a.ssh(ep.User)
	}
	return nil, nil //nolint:nilnil // files and git:// know none
}

func (a Auth) ssh(user string) (transport.AuthMethod, error) {
	if user == "" {
		user = "git"
	}
	if len(a.KnownHostsFiles) == 0 {
		return nil, errors.New("no known_hosts file: name one in SSH_KNOWN_HOSTS")
	}
	check, err := ssh.NewKnownHostsCallback(a.KnownHostsFiles...)
	if err != nil {
		return nil, fmt.Errorf("known_hosts: %w: create it with `ssh-keyscan HOST >> ~/.ssh/known_hosts`", err)
	}
	helper := ssh.HostKeyCallbackHelper{HostKeyCallback: sshagent.HostKeyCallback(check)}
	if a.SSHKeyFile == "" {
		agent, err := ssh.NewSSHAgentAuth(user)
		if err != nil {
			return nil, fmt.Errorf("no SSH agent: start one, or name a key in SLUICE_SSH_KEY: %w", err)
		}
		agent.HostKeyCallbackHelper = helper
		return agent, nil
	}
	keys, err := ssh.NewPublicKeysFromFile(user, a.SSHKeyFile, a.SSHKeyPassphrase)
	if err != nil {
		return nil, fmt.Errorf("SSH key %s: %w", a.SSHKeyFile, err)
	}
	keys.HostKeyCallbackHelper = helper
	return keys, nil
}
