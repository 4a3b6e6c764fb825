package bedtest

import "syscall"

// attributes end a server with the test that started it, also if the test is killed.
func attributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
