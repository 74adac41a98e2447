//! The agent on made hosts: everything between the files and the page, without thread and socket.

mod hosts;
mod laws;
mod power;
mod recorded;
mod textfile;
mod watched;
